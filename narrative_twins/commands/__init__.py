"""The commands of `narrative-twins`: functions with typed signatures, which `options.py` turns into
commands."""
