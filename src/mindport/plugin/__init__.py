"""A plug-in for MindFormers. What is in this folder runs inside MindFormers, without the rest of Mindport."""
