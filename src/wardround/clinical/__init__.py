"""Clinical knowledge: codes, vocabulary, published definitions, hourly bundles of events, and protocols of rules."""
