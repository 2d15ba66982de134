"""The routes, by what they need: nothing, the scope read, the scope submit, the scope operate."""
