"""Flags, a file a subject: `options` adds them to a command, `settings` makes of their values what they set."""
