"""What every run reads about actions: intents, hints, holds, the stop switch and plan files."""
