"""How the actions of Azure kinds are carried out: one module for each kind that can act, and their helpers.

Imported in mode enforce and for undoing only.
"""
