"""Making data to train on: narrative twins, and rows of them changed for ablations.

`narrative-twins make` is the command line of it; nothing else of the package needs this room.
"""
