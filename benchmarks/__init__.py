"""Side by side with other libraries and with known answers: one run, both sides, ratios."""
