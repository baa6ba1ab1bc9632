"""How answers are judged: read into typed forms, compared exactly, else by algebra in a process that can be killed."""
