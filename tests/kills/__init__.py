"""The kill matrix: stories that bring the service to a named point, with the process killed there once.

A story is a job and what happens to it; it ends in the same way each time, killed or not. The process that
visits the armed point dies by SIGKILL; a fresh one goes on with what the dead one left behind.
"""
