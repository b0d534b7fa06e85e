"""What an operator is shown: status, history, explanations, metrics. Pure, but for `look`, which asks, and `serve`."""
