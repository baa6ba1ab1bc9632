"""Judging answers: texts are read into typed forms and compared exactly, else by algebra in a process that can be
killed.
"""
