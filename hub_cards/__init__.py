"""Templates of the cards that go to the Hub with encoders, data sets, metrics and pages."""
