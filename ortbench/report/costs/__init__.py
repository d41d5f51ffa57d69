"""What a run costs besides time: a module for each kind of cost, and the section that joins them."""
