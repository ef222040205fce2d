"""Training data: makes narrative twins and votes for sentences, and replaces names in rows of
twins. Used by `narrative-twins make`."""
