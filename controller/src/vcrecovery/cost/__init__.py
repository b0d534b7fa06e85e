"""What protection costs: prices, this plan's bill, and what else the same services could be protected by."""
