"""Token ids to text: UTF-8 boundaries and stop strings. Any number of replicas; each dials the front and the hub."""
