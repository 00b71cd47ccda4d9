/* Preloaded into the kernel of user-mode Linux, which sets the registers of its processes by ptrace.
 *
 * Linux 6.1 hands back as much of the floating-point state as it has room for, 2696 bytes. On
 * processors with AMX the state has 11 KiB, and their kernel takes all of it or none: user-mode
 * Linux panics in put_fp_registers before its first process runs. Here what is missing is taken
 * from the process itself. AMX is not used inside: a process would have to ask for it first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <linux/ptrace.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* More than any processor has. */
static char whole[64 * 1024];

typedef long ptrace_function(int, pid_t, void *, void *);

/* As ptrace(2), whose variable arguments are passed like these; the kernel of user-mode Linux has one thread that calls it. */
long ptrace(int request, pid_t pid, void *address, void *data)
{
    static ptrace_function *next;

    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
        const struct iovec *given = data;
        struct iovec all = {whole, sizeof whole};

        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) == 0
            && given->iov_len < all.iov_len) {
            memcpy(whole, given->iov_base, given->iov_len);
            return syscall(SYS_ptrace, request, pid, address, &all);
        }
    }
    if (!next)
        next = (ptrace_function *)dlsym(RTLD_NEXT, "ptrace");
    return next(request, pid, address, data);
}
