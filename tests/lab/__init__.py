"""A throw-away Proxmox stand-in made of real parts: systemd, sshd, nested LXC containers, namespaces of its own."""
