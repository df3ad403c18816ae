"""Compiles traced code into steps, for one device, a mesh, or several processes."""
