"""What replies say: plain JSON objects from the store's tables. One module for each thing that is asked."""
