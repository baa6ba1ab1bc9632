"""Live use: recording it, learning from it pass by pass, canaries, and the inbox of what waits for a person."""
