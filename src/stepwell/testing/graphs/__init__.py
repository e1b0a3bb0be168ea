"""Cases of graphs: scripted work, virtual time, one line of JSON for each."""
