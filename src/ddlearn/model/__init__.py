"""What the mathematics is about: codes and the model, losses, the MAP objective, its scales and priors, measures."""
