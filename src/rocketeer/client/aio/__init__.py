"""The clients on asyncio; everything long-lived exists here, once."""
