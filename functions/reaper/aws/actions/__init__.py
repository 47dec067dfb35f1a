"""How the actions of AWS kinds are carried out: one module for each kind that can act, and their helpers.

Imported in mode enforce and for undoing only.
"""
