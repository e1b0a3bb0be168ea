"""Tests of channels: real mail servers and listeners on loopback."""
