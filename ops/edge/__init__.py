"""The edge: who is turned away before a connection exists, in the kernel (nftables) or at HAProxy.

``nftables`` and ``haproxy`` render settings as configuration; ``formats``, ``networks`` and ``verdicts`` are the rules
on reputation lists, pure; ``sources``, ``copies`` and ``kernel`` touch the world; ``sync`` joins them. The two files
``ticketmill-edge.*`` beside them are what the settings' defaults give, for those who want to read before they run.
"""
