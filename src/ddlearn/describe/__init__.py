"""Everything between a raw sample and the row that is coded, and back."""
