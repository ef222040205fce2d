"""Plots: plain data in, matplotlib figures out."""
