"""What every run reads about actions: intents, holds, the stop switch and plan files."""
