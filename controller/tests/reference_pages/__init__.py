"""The reference pages and the roles' READMEs, made of the code that they describe. `make docs` writes them."""
