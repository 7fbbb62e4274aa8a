"""Holds flags, a file a subject: `options` adds them to a command, `settings` turns their values into what they set."""
