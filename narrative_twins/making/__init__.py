"""Making data to train on.

`narrative-twins make` is the door; nothing else of the package needs this room.
"""
