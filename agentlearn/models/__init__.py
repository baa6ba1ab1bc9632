"""The one door to a model: endpoints by name, one gate and one HTTP client each, retries, budget, journal."""
