"""What every run reads about actions: unfinished ones, the stop switch and plan files."""
