"""What the mathematics is about: codes and the model, losses, the MAP objective with its scales and priors."""
