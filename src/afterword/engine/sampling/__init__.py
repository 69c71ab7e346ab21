"""From a row of logits to log-probabilities and to the next token, one row at a time: numpy, no model."""
