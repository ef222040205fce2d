"""Making data to train on: narrative twins, and rows of them changed for ablations.

`narrative-twins make` is the door; nothing else of the package needs this room.
"""
