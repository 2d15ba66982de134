"""What the tools print, as values. Pure: text in, values out, `UnreadableError` for what is none."""
