"""Lab models without torch: tokenizer, transformer in numpy, and the service behind the endpoint `lab:…`."""
