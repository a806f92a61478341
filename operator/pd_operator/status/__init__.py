"""From what was observed and done to the status subresource and to Events; pure."""
