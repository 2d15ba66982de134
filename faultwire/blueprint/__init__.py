"""The Blueprint: what happened to one attempt, from stores that are asked after the fact."""
