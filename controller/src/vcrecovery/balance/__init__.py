"""How loaded the secondaries are, and which standbys that serve go elsewhere when one is overloaded."""
