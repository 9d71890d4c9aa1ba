"""What every other room leans on; it leans on none of them."""
