"""Templates of the cards for encoders, data sets, the metric and the Space on the Hub."""
