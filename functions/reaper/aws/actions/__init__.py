"""How the moves of AWS kinds are made: one module for each kind that can act. Imported in mode enforce and for undoing only."""
