"""The defences by subject, and how each is switched off."""
