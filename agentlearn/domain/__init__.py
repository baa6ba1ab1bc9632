"""What a domain provides (`base`), checks of that contract, domains made from a file and a reward, and templates."""
