"""The report in each of its formats. All of them are pure functions of a `Report`."""
