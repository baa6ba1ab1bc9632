"""What a walk can do in its browser, one module for each kind of act. Each function returns an ActResult."""
