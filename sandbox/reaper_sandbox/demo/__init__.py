"""The demo: a sweep of the simulated fleets, and the story of two weeks of enforcement."""
