"""How long a report takes over a journal of a million episodes, and how much memory."""
