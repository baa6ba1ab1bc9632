"""One update of the weights: advantages, training rows, losses and optimiser steps."""
