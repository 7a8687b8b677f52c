/* A plain sender, as earlier tools have it: one frame, sent repeatedly by sendmmsg (or send,
 * with a burst of 1) on an AF_PACKET or a UDP socket. bench/engine/plain.py compiles and kernel.py
 * runs it; the device at the other end counts the frames.
 *
 *   plain raw|raw-bypass DEVICE BYTES BURST      bytes of the frame without FCS, without a receiver
 *   plain datagram DEVICE BYTES BURST MAC IP     the same, a UDP datagram to the device at the
 *                                                other end, whose kernel then processes it
 *   plain udp ADDRESS BYTES BURST                bytes of the payload */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BURST_MAX 1024

static unsigned char frame[9018];

static int open_raw(const char *device, int bypass)
{
    const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_ifindex = (int)if_nametoindex(device)};
    const int fd = socket(AF_PACKET, SOCK_RAW, 0);

    if (fd >= 0 && bypass)
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    memcpy(frame, "\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x08\0\x45", 15);
    return fd;
}

/* Fill in the addresses as a tool does that uses those of the devices. */
static void address_datagram(const char *mac, const char *ip, size_t bytes)
{
    const unsigned short ip_length = htons((unsigned short)(bytes - 14));
    const unsigned short udp[4] = {htons(5000), htons(5000), htons((unsigned short)(bytes - 34))};
    unsigned long sum = 0;

    sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", frame, frame + 1, frame + 2, frame + 3, frame + 4,
           frame + 5);
    memcpy(frame + 14, "\x45\0\0\0\0\0\0\0\x40\x11\0\0\xc6\x12\0\x01", 16);
    memcpy(frame + 16, &ip_length, 2);
    inet_pton(AF_INET, ip, frame + 30);
    for (unsigned i = 14; i < 34; i += 2)
        sum += (unsigned long)frame[i] << 8 | frame[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    frame[24] = (unsigned char)(sum >> 8);
    frame[25] = (unsigned char)sum;
    memcpy(frame + 34, udp, sizeof udp);
}

static int open_udp(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5000)};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    inet_pton(AF_INET, text, &address.sin_addr);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    static struct mmsghdr messages[BURST_MAX];
    struct iovec vector = {frame, 0};

    if (argc != 5 && argc != 7)
        return 2;
    const int udp = strcmp(argv[1], "udp") == 0;
    const int fd = udp ? open_udp(argv[2]) : open_raw(argv[2], strcmp(argv[1], "raw-bypass") == 0);
    const unsigned burst = (unsigned)atoi(argv[4]);
    if (fd < 0 || burst == 0 || burst > BURST_MAX) {
        perror("plain");
        return 1;
    }
    vector.iov_len = (size_t)atoi(argv[3]);
    if (argc == 7)
        address_datagram(argv[5], argv[6], vector.iov_len);
    for (unsigned i = 0; i < burst; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vector, .msg_iovlen = 1};
    for (;;) {
        const int sent =
            burst == 1 ? (int)send(fd, frame, vector.iov_len, 0) : sendmmsg(fd, messages, burst, 0);
        if (sent < 0 && errno != ENOBUFS && errno != ECONNREFUSED) {
            perror("plain");
            return 1;
        }
    }
}
