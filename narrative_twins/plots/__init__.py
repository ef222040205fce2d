"""Plots: functions from plain data to matplotlib figures."""
